"""For operators: MLflow is told of runs, Dask and Spark work for them, Prometheus and an index page show them."""

BRINGS = {
    "tracker": {"mlflow": "understudy.extras.ops.mlflow_record:Mlflow"},
    "executor": dict.fromkeys(("tcp", "tls", "ucx", "ws", "wss"), "understudy.extras.ops.cluster:Cluster"),
    "counting": {
        **dict.fromkeys(("tcp", "tls", "ucx", "ws", "wss"), "understudy.extras.ops.counting:dask"),
        **dict.fromkeys(("spark", "local"), "understudy.extras.ops.counting:spark"),
    },
    "export": {"prometheus": "understudy.extras.ops.prometheus:write_telemetry"},
    "command": {"index": "understudy.extras.ops.commands:add_to"},
    "index page": {"index.html": "understudy.extras.ops.index:make_page"},
}
