"""The application's side: sessions, engines, recorder, capture of traces."""
