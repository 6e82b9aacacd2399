"""SuperLink and SuperNodes on one machine: started, watched and stopped. Flower's commands are run, never imported."""

from holdfast.deploy.environment import missing_flower

try:
    from holdfast.deploy.certificates import Certificates, make_certificates, make_node_key
    from holdfast.deploy.deployment import DeploymentStatus, LocalDeployment, NodeStatus
    from holdfast.deploy.services import ServerApp, ServerService, Service, SuperNode
    from holdfast.deploy.submission import RunStatus, SubmittedRun
except ModuleNotFoundError as error:
    raise missing_flower(str(error.name)) from error

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
