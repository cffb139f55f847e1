"""Marginals that others have published, with noise or without: a model of rows from them alone, and no real table."""

_HERE = "understudy.extras.marginals"
BRINGS = {
    "job": {"marginals": f"{_HERE}.job:KIND"},
    "model": {"marginals": f"{_HERE}.model:PublishedModel"},
    "public name": {"from_marginals": f"{_HERE}.model:from_marginals"},
}
