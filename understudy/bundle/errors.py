"""What goes wrong with bundles: a child of `BadInput`, so that the command line ends in exit code 2."""

from synth.errors import BadInput


class BundleError(BadInput):
    """A bundle, a key or a register cannot be used, or what was asked of it is refused; nothing was written."""
