"""What the server does: a robust strategy around a model, and a look at the test points after every round."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from torch.nn import functional

from robust_federation import task
from steadfed.aggregators import RULES
from steadfed.flower import RageStrategy, ResilientStrategy, RobustStrategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play the rounds."""
    settings = context.run_config
    dataset = task.data(str(settings["dataset"]))
    model = task.model(dataset, int(settings["seed"]))

    def evaluate(_: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        with torch.inference_mode():
            outputs = model(dataset.test_features)
        loss = functional.cross_entropy(outputs, dataset.test_labels)
        right = (outputs.argmax(dim=1) == dataset.test_labels).float().mean()
        return MetricRecord({"loss": float(loss), "accuracy": float(right)})

    result = strategy(context).start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        num_rounds=int(settings["rounds"]),
        timeout=float(settings["timeout"]),
        evaluate_fn=evaluate,
    )
    print(f"on the test points after 0, 1, … rounds: {result.evaluate_metrics_serverapp}")


def strategy(context: Context) -> ResilientStrategy:
    """Return the strategy that the settings describe."""
    settings, malicious = context.run_config, int(context.run_config["num-malicious-nodes"])
    common = {
        "lr": float(settings["lr"]),
        "local_steps": int(settings["local-steps"]),
        "batch_size": int(settings["batch-size"]),
        "seed": int(settings["seed"]),
        "run_folder": settings["run-folder"] or None,
        "nodes": settings["nodes"] or None,
        "signing_key": settings["signing-key"] or None,
        "fraction_evaluate": 0.0,
        "min_train_nodes": 2 * malicious + 1,
        "min_available_nodes": 2 * malicious + 1,
    }
    if settings["rule"] == "rage":
        return RageStrategy(num_malicious_nodes=malicious, **common)
    name = str(settings["rule"])
    bounded = "num_byzantine" in RULES[name.partition("+")[0]].model_fields or "+" in name
    return RobustStrategy(RULES.build(name, **({"num_byzantine": malicious} if bounded else {})), **common)
