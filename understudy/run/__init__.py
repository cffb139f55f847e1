"""The run of a job: plan, stages, candidates, all of them side by side (`pool`), and workspace, each a module."""
