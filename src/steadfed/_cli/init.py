"""`steadfed init`: a configuration to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from steadfed._cli import snapshot
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steadfed.simulation import RunConfig

ASSUMED = 0.3
"""Share of Byzantine updates that a rule assumes where a fifth of the clients are Byzantine and the cohorts vary."""
GUARDED = 0.2
"""The same for RAGE, whose guard notices cohorts with more."""

USUAL = {"data": "digits", "model": "mlp", "partition": "dirichlet", "rule": "rage", "attack": "alie"}
"""The parts to start from."""
TRUSTED = 100
"""Points that the server keeps for itself where the rule needs some."""


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("run.toml"),
    data: Annotated[str, typer.Option(help="The data set; `steadfed list datasets` names them all.")] = "digits",
    model: Annotated[str, typer.Option(help="The model; `steadfed list models`.")] = "mlp",
    partition: Annotated[str, typer.Option(help="Who holds which points; `steadfed list partitions`.")] = "dirichlet",
    rule: Annotated[
        str, typer.Option(help="How the server aggregates; `steadfed list rules`, or module:name.")
    ] = "rage",
    attack: Annotated[
        str, typer.Option(help="What a fifth of the clients do; `steadfed list attacks`, or module:name.")
    ] = "alie",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Write a configuration to start from, with a comment before every key.

    Digits dealt out to 100 clients by Dirichlet 0.5, 40 of them in a round, 5 local steps, a fifth of the clients
    Byzantine with "a little is enough", and RAGE; the options change what is trained, by whom and how. A rule or an
    attack of your own is named by its import path, such as my_rules:median for the function `median` in my_rules.py;
    nothing of it is executed here.
    """
    if file.exists() and not force:
        raise ParameterError(f"{str(file)!r} exists; choose another name, or overwrite it with --force")
    wanted = {"data": data, "model": model, "partition": partition, "rule": rule, "attack": attack}
    text = snapshot.known()["start"] if wanted == USUAL else starting_text(**wanted)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ParameterError(f"cannot write {str(file)!r}: {error.strerror}") from None
    name = shlex.quote(str(file))
    Console().print(
        f"Wrote {file}. Next:\n"
        f"  steadfed check {name}    # what it means, what it needs, what it cannot guarantee\n"
        f"  steadfed run {name}      # runs it; Ctrl-C stops, steadfed resume continues",
        highlight=False,
        soft_wrap=True,
    )


def starting_text(**names: str) -> str:
    """Return a configuration to start from, with these parts in place of the demonstration's. Loads torch."""
    from steadfed.runs import template

    return template(_starting_config(names))


def _starting_config(names: Mapping[str, str]) -> RunConfig:
    """Return the demonstration's configuration with other parts, as far as they were named."""
    from steadfed._cli.demonstration import configs
    from steadfed.aggregators import Need
    from steadfed.attacks import FractionMembers, Honest
    from steadfed.simulation import RunConfig, ServerOptions
    from steadfed.simulation._tables import NAMED

    config, usual = configs(rounds=100)["rage"], RunConfig()
    changes: dict[str, Any] = {
        key: _build_part(key, name) for key, name in names.items() if name != NAMED[key].name(getattr(config, key))
    }
    if "data" in changes:  # the demonstration's are for clients with a handful of points
        changes |= {"lr": usual.lr, "batch_size": usual.batch_size}
    if "rule" in changes and changes["rule"].all_needs() & {Need.TRUSTED_ROW, Need.TRUSTED_LOSS}:
        changes["server"] = ServerOptions(trusted_points=TRUSTED)
    if isinstance(changes.get("attack"), Honest):
        changes["byzantine"] = FractionMembers(fraction=0.0)
    return config.model_copy(update={"checkpoint_every": usual.checkpoint_every, **changes})


def _build_part(key: str, name: str) -> Any:
    """Return the named part; a rule that needs a bound assumes one."""
    from steadfed.simulation._tables import NAMED

    names = NAMED[key]
    *around, innermost = [names[part] for part in name.split("+")]
    missing = [field for field, each in innermost.model_fields.items() if each.is_required()]
    if missing and not around and ":" not in name:
        wanted = " ".join(f"--set {key}.{field}=…" for field in missing)
        advice = f"leave --{key} out, then `steadfed run FILE --set {key}={name} {wanted}`"
        raise ParameterError(f"{name} needs {', '.join(missing)}: {advice}")
    share = GUARDED if name == "rage" else ASSUMED
    assumed = {"byzantine_fraction": share} if "byzantine_fraction" in innermost.model_fields else {}
    return names.build(name, **assumed)
