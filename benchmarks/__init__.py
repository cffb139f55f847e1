"""Times and figures of this project beside its peers', in one run, as ratios."""
