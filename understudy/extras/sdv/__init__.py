"""SDV beside ours: its synthesizers as generators, and its metadata to a schema and back."""

BRINGS = {
    "generator": {
        "sdv.gaussian_copula": "understudy.extras.sdv.generators:GaussianCopula",
        "sdv.ctgan": "understudy.extras.sdv.generators:SdvCtgan",
        "sdv.tvae": "understudy.extras.sdv.generators:SdvTvae",
    },
    "library": {"sdv": "sdv", "ctgan": "ctgan"},
    "schema command": {"convert": "understudy.extras.sdv.commands:add_to"},
}
