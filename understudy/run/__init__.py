"""The run of a job: cautions (`preflight`), plan, stages, candidates, workspace, and all of them in order (`run`)."""
