"""The stages: a file each, or a folder with everything that only it needs. `registry` lists them in the order of the flow."""
