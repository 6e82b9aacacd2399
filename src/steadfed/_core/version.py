"""Which version this is, for those layers that may not import the package as a whole."""

VERSION = "0.1.0"
