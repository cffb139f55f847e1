"""The model card of a synthetic table: data first, then YAML and Markdown with a dataset card's front matter."""
