"""How close synthetic rows come to real ones: columns on their own, and in pairs."""
