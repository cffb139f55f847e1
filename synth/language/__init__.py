"""Language models for columns of free text: tokenizers, prompts, a decoder, adapters, their training, and sampling."""
