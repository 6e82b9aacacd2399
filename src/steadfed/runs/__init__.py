"""Runs: a configuration, carried out in a folder that survives a crash."""

from steadfed.runs._deployments import is_deployment
from steadfed.runs._files import config_from_toml, config_to_toml, read_config, template
from steadfed.runs._play import resume, run
from steadfed.runs._run import Run, config_of

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
