"""The settings of a job: what is decided goes to SCR and the application, what the user says comes in."""
