"""SDV's metadata and our schema, each from the other: pure translation of plain data, without SDV.

What one side knows and the other has no place for is told, sentence by sentence, and never dropped in silence.
"""

from synth.sdv_metadata.columns import SPECS, Spec
from synth.sdv_metadata.reading import FromSdv, from_sdv, read_metadata
from synth.sdv_metadata.writing import ToSdv, to_sdv, write_metadata

__all__ = ["SPECS", "FromSdv", "Spec", "ToSdv", "from_sdv", "read_metadata", "to_sdv", "write_metadata"]
