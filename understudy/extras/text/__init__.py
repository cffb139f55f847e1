"""Free text: columns that a language model learns and writes, and what is measured of them."""

_MEASURED = "understudy.extras.text.evaluation"
BRINGS = {
    "wrapper": {"text": "understudy.extras.text.wrapper:WithTexts"},
    "measure": {
        "fidelity.texts": f"{_MEASURED}.fidelity",
        "utility.texts": f"{_MEASURED}.utility",
        "privacy.texts": f"{_MEASURED}.repeated",
        "privacy.texts.membership": f"{_MEASURED}.membership",
    },
    "figure": {"texts": f"{_MEASURED}.fidelity:DRAWN", "text_copies": f"{_MEASURED}.repeated:CopiedTexts"},
    "section": {"texts": "understudy.extras.text.report:SECTION"},
    "library": {"transformers": "transformers", "peft": "peft", "tokenizers": "tokenizers"},
}
