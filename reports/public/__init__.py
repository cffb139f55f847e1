"""The report to hand on: facts for people who may not see the real table, their page, and the verdict on them."""
