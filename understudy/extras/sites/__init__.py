"""Several sites, one synthetic table: nobody hands over rows (docs/how-to/sites.md)."""

BRINGS = {
    "command": {"sites": "understudy.extras.sites.commands:add_to"},
    "settings": {"sites": "understudy.extras.sites.job:SETTINGS"},
    "trust": {"sites": "understudy.extras.sites:TRUST"},
}
TRUST = (
    "Several sites hold the rows and add the noise: whoever is in a site's table trusts that site; the notes say what "
    "a server and other sites can learn"
)
