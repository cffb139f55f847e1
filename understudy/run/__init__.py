"""The run of a job: plan, stages, candidates, worker processes and workspace, each in a module of its own."""
