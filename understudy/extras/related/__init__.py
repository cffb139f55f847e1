"""Related tables: any number of tables with their keys, drawn parents first, so that every foreign key is a key."""

_HERE = "understudy.extras.related"
BRINGS = {
    "job": {"tables": f"{_HERE}.run:KIND"},
    "schema command": {"related": f"{_HERE}.command:add_to"},
    "public name": {
        "Keys": f"{_HERE}.keys:Keys",
        "evaluate_related": f"{_HERE}.evaluation:evaluate_related",
        "fit_related": f"{_HERE}.fit:fit_related",
        "infer_keys": f"{_HERE}.infer:infer_keys",
        "load_related": f"{_HERE}.model:load_related",
        "split_related": f"{_HERE}.evaluation:split_related",
    },
}
