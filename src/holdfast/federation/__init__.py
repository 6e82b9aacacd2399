"""SuperLink and SuperNodes on one machine: started, watched and stopped. Flower's commands are run, never imported."""

from holdfast.federation.certificates import Certificates, make_certificates, make_node_key
from holdfast.federation.control import Federation
from holdfast.federation.parts import Part, ServerApp, SuperExec, SuperLink, SuperNode
from holdfast.federation.submitted import SubmittedRun

__all__ = [
    "Certificates",
    "Federation",
    "Part",
    "ServerApp",
    "SubmittedRun",
    "SuperExec",
    "SuperLink",
    "SuperNode",
    "make_certificates",
    "make_node_key",
]
