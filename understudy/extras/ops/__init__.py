"""For operators: MLflow is told of runs, Dask works for them, Prometheus and an index page show them."""

_DASK = ("tcp", "tls", "ucx", "ws", "wss")
BRINGS = {
    "tracker": {"mlflow": "understudy.extras.ops.mlflow_record:Mlflow"},
    "executor": dict.fromkeys(_DASK, "understudy.extras.ops.cluster:Cluster"),
    "counting": dict.fromkeys(_DASK, "understudy.extras.ops.cluster:connected"),
    "export": {"prometheus": "understudy.extras.ops.prometheus:write_telemetry"},
    "command": {"index": "understudy.extras.ops.commands:add_to"},
    "index page": {"index.html": "understudy.extras.ops.index:make_page"},
}
