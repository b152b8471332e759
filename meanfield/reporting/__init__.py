"""What people read: formulas, tables and articles in LaTeX, HTML for notebooks, labelled arrays.

formulas, gram_formulas, statements, numbers    `mf.latex` of everything the library hands out
breaking       long lines, broken at their sums
article, sections, network_text, literature    `mf.report`
tables, quantities    results as xarray datasets: names, units and LaTeX of what they hold
"""
