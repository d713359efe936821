"""The geographic fields of the blocks of redistricting files, from their headers."""

from __future__ import annotations

import numpy as np

from das.files.readers.pl94_common import WIDTHS
from das.files.readers.pl94_header import LEVELS, Header, HeaderPlaces
from das.files.readers.source import points
from das.model.codes import Codes, characters, encoded, of_characters

#: Fields that some headers leave empty.
DISTRICTS = ("CD", "SLDU", "SLDL", "VTD", "SDELM", "SDSEC", "SDUNI")
#: Fields of blocks whose codes stand in the header as they are.
RAW = {"Place": "PLACE", "AIAN": "AIANHH"} | {f: f for f in DISTRICTS}


def geography(header: Header, found: HeaderPlaces) -> dict[str, Codes]:
    """The geographic fields of the blocks. Places, American Indian areas and districts are raw
    codes, all 9 for none.
    """
    at = found.rows["750"]
    code = characters(encoded(found.codes["750"]))
    fields = {level.field: of_characters(code[:, : level.width]) for level in LEVELS.values()}
    fields["Tract_Group"] = of_characters(code[:, :9])
    fields["County_Subdivision"] = np.strings.add(
        fields["County"], encoded(header.fields["COUSUB"][at])
    )
    for field, raw in RAW.items():
        value = header.fields[raw][at]
        none = ((points(value) == ord(" ")) | (points(value) == ord("Z"))).all(
            axis=1
        )  # Z: none is defined
        fields[field] = np.where(none, b"9" * WIDTHS[raw], encoded(value))
    return fields
