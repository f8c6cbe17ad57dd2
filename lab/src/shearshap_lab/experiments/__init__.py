"""Every experiment of the paper: a frozen specification (`spec`) -> tidy records in Parquet
(`runner`) -> claims judged (`claims`) -> pages, figures and tables (`page`).
"""
