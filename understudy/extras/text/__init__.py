"""Free text: columns that a language model learns and writes, and what is measured of them."""

BRINGS = {"section": {"texts": "understudy.extras.text.report:SECTION"}}
