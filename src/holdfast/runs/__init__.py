"""Runs: a configuration, carried out in a folder that survives a crash."""

from holdfast.runs._deployments import is_deployment
from holdfast.runs._files import config_from_toml, config_to_toml, read_config, template
from holdfast.runs._play import resume, run
from holdfast.runs._run import Run, config_of

__all__ = [
    "Run",
    "config_from_toml",
    "config_of",
    "config_to_toml",
    "is_deployment",
    "read_config",
    "resume",
    "run",
    "template",
]
