"""SuperLink and SuperNodes on one machine: started, watched and stopped. Flower's commands are run, never imported."""

from holdfast.deploy._environment import missing_flower as _missing_flower

try:
    from holdfast.deploy._certificates import Certificates, make_certificates, make_node_key
    from holdfast.deploy._deployment import DeploymentStatus, LocalDeployment, NodeStatus
    from holdfast.deploy._services import ServerApp, ServerService, Service, SuperNode
    from holdfast.deploy._submission import RunStatus, SubmittedRun
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
