"""The autoregressive network without epsilon: codes and ranks, each from those before it, in one order or in any."""

BRINGS = {"generator": {"arn": "understudy.extras.arn.generator:Arn"}}
