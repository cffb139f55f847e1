"""Features beside the core, each a folder that can be deleted; `synth.extras` says how one enters."""
