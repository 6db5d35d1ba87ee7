"""What is kept between processes: finished programs, so that a second start neither traces nor compiles."""
