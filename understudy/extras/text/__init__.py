"""Free text: a language model writes the columns of text of any generator's rows, with epsilon or without."""

BRINGS = {"wrapper": {"text": "understudy.extras.text.wrapper:WithTexts"}}
