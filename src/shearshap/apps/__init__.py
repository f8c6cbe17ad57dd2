"""Applications of the library: what `shear` starts. The library never imports them.

cli         the command line
jobs        files to explanations in files, also on many machines
serve       a service with a page
report      HTML pages in a single file
"""
