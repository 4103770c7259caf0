package kernel

// Split returns the rectangle [i0,i1)×[j0,j1) of an m×n product that part (0 ≤ part <
// parts) of a set of equal workers computes. It divides the columns in whole panels of
// 32, or the rows where those divide clearly more evenly. The rectangles are disjoint and
// cover everything; some may be empty.
func Split(m, n, parts, part int) (i0, i1, j0, j1 int) {
	const panel, band = 32, 8
	panels, bands := ceil(n, panel), ceil(m, band)
	// The slowest worker's share, in panels times bands, either way.
	if 4*ceil(panels, parts)*bands <= 5*ceil(bands, parts)*panels {
		return 0, m, min(n, panels*part/parts*panel), min(n, panels*(part+1)/parts*panel)
	}
	return m * part / parts, m * (part + 1) / parts, 0, n
}

// ceil is a/b rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }
