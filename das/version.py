"""The version, for the package, its manifests and the built wheel."""

__version__ = "0.2.0"
