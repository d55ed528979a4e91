"""From plans to a C project: view models, templates, project writer."""
