"""SuperLink and SuperNodes on one machine: started, watched and stopped. Flower's commands are run, never imported."""

from steadfed.deploy._environment import missing_flower as _missing_flower

try:
    from steadfed.deploy._certificates import Certificates, make_certificates, make_node_key
    from steadfed.deploy._deployment import DeploymentStatus, LocalDeployment, NodeStatus
    from steadfed.deploy._services import ServerApp, ServerService, Service, SuperNode
    from steadfed.deploy._submission import RunStatus, SubmittedRun
except ModuleNotFoundError as error:
    raise _missing_flower(str(error.name)) from error

__all__ = [
    "Certificates",
    "DeploymentStatus",
    "LocalDeployment",
    "NodeStatus",
    "RunStatus",
    "ServerApp",
    "ServerService",
    "Service",
    "SubmittedRun",
    "SuperNode",
    "make_certificates",
    "make_node_key",
]
