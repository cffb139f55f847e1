"""Free text: columns that a language model learns and writes, and what is measured of them."""

BRINGS = {
    "wrapper": {"text": "understudy.extras.text.wrapper:WithTexts"},
    "section": {"texts": "understudy.extras.text.report:SECTION"},
}
