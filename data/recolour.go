// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"
	"math/rand/v2"
)

// Pillow's operations on the colours of an image, bit for bit (ImageOps, ImageEnhance, and Convert.c, Blend.c, Filter.c
// of src/libImaging in Pillow 9.4). Each works in place.

// lookup replaces the values of channel c by those of a table.
func (p *Image) lookup(c int, table *[256]uint8) {
	for i := c; i < len(p.Pixels); i += 3 {
		p.Pixels[i] = table[p.Pixels[i]]
	}
}

// histogram counts the values of channel c.
func (p *Image) histogram(c int) (counts [256]int) {
	for i := c; i < len(p.Pixels); i += 3 {
		counts[p.Pixels[i]]++
	}
	return counts
}

// autocontrast stretches the values of each channel to 0…255.
func (p *Image) autocontrast() {
	for c := range 3 {
		counts := p.histogram(c)
		low, high := 0, 255
		for low < 255 && counts[low] == 0 {
			low++
		}
		for high > 0 && counts[high] == 0 {
			high--
		}
		if high <= low {
			continue
		}
		scale := 255 / float64(high-low)
		offset := float64(-low) * scale
		var table [256]uint8
		for v := range table {
			table[v] = clip8(int(float64(float64(v)*scale) + offset))
		}
		p.lookup(c, &table)
	}
}

// equalize makes all values of each channel equally frequent, as far as integers allow.
func (p *Image) equalize() {
	for c := range 3 {
		counts := p.histogram(c)
		total, kinds, last := 0, 0, 0
		for _, n := range counts {
			if n > 0 {
				total, kinds, last = total+n, kinds+1, n
			}
		}
		step := (total - last) / 255
		if kinds < 2 || step == 0 {
			continue
		}
		var table [256]uint8
		sum := step / 2
		for v, n := range counts {
			table[v] = clip8(sum / step)
			sum += n
		}
		p.lookup(c, &table)
	}
}

// luma is the grey of a colour: ITU-R 601 in Pillow's 16-bit fixed point.
func luma(rgb []uint8) uint8 {
	return uint8((19595*uint32(rgb[0]) + 38470*uint32(rgb[1]) + 7471*uint32(rgb[2]) + 0x8000) >> 16)
}

// grey gives every pixel the grey of its colour.
func (p *Image) grey() { p.color(0) }

// color scales the saturation: 0 is grey, 1 the image, larger values exaggerate.
func (p *Image) color(factor float64) {
	p.blend(factor, func(at []uint8) [3]uint8 {
		v := luma(at)
		return [3]uint8{v, v, v}
	})
}

// brightness blends with black.
func (p *Image) brightness(factor float64) {
	p.blend(factor, func([]uint8) [3]uint8 { return [3]uint8{} })
}

// contrast blends with the mean grey of the image.
func (p *Image) contrast(factor float64) {
	sum := 0
	for i := 0; i < len(p.Pixels); i += 3 {
		sum += int(luma(p.Pixels[i:]))
	}
	mean := uint8(float64(sum)/float64(p.Height*p.Width) + 0.5)
	p.blend(factor, func([]uint8) [3]uint8 { return [3]uint8{mean, mean, mean} })
}

// sharpness blends with the image smoothed by 1 1 1, 1 5 1, 1 1 1 over 13, whose border is unchanged.
func (p *Image) sharpness(factor float64) {
	source, line := append([]uint8(nil), p.Pixels...), 3*p.Width
	at := 0
	p.blend(factor, func(rgb []uint8) (smooth [3]uint8) {
		y, x := at/p.Width, at%p.Width
		i := 3 * at
		at++
		if y == 0 || x == 0 || y == p.Height-1 || x == p.Width-1 {
			return [3]uint8(rgb)
		}
		for c := range 3 {
			sum := 4 * int(source[i+c])
			for _, row := range [3]int{i + c - line, i + c, i + c + line} {
				sum += int(source[row-3]) + int(source[row]) + int(source[row+3])
			}
			smooth[c] = uint8((2*sum + 13) / 26) // rounded; 13 is odd, so there are no halves
		}
		return smooth
	})
}

// blend interpolates each pixel between another colour, at 0, and itself, at 1, and extrapolates beyond. It works line
// by line.
func (p *Image) blend(factor float64, from func(rgb []uint8) [3]uint8) {
	if factor == 1 {
		return
	}
	alpha := float32(factor)
	for i := 0; i+2 < len(p.Pixels); i += 3 {
		at := p.Pixels[i : i+3 : i+3]
		other := from(at)
		for c, v := range other {
			// Pillow truncates an interpolated result, and clips others.
			at[c] = clip8(int(float32(v) + float32(alpha*float32(int(at[c])-int(v)))))
		}
	}
}

// hue rotates the colours: shift is added to the hue, a circle of 256 steps, in Pillow's 8-bit HSV.
func (p *Image) hue(shift uint8) {
	for i := 0; i+2 < len(p.Pixels); i += 3 {
		at := p.Pixels[i : i+3 : i+3]
		h, s, v := hsv(at[0], at[1], at[2])
		at[0], at[1], at[2] = fromHSV(h+shift, s, v)
	}
}

func hsv(r, g, b uint8) (h, s, v uint8) {
	v = max(r, g, b)
	least := min(r, g, b)
	if v == least {
		return 0, 0, v
	}
	span := float32(v) - float32(least)
	red, green, blue := float32(v-r)/span, float32(v-g)/span, float32(v-b)/span
	var angle float32
	switch v {
	case r:
		angle = blue - green
	case g:
		angle = float32(2 + float64(red) - float64(blue))
	default:
		angle = float32(4 + float64(green) - float64(red))
	}
	angle = float32(math.Mod(float64(angle)/6+1, 1))
	return clip8(int(float64(angle) * 255)), clip8(int(float64(span/float32(v)) * 255)), v
}

func fromHSV(h, s, v uint8) (r, g, b uint8) {
	if s == 0 {
		return v, v, v
	}
	sixth := int(float64(h) * 6 / 255)
	rest, strength := float32(float64(h)*6/255-float64(sixth)), float32(float64(s)/255)
	level := func(share float64) uint8 { return clip8(int(math.Round(float64(v) * (1 - share)))) }
	p, q := level(float64(strength)), level(float64(strength*rest)) // Pillow's second product has single precision
	t := level(float64(float64(strength) * (1 - float64(rest))))
	switch sixth % 6 {
	case 0:
		return v, t, p
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	}
	return v, p, q
}

// jitter is torchvision's ColorJitter: brightness, contrast and saturation times a factor of max(0, 1−s) to 1+s, the
// hue turned by up to ±s of the circle, in random order.
func (p *Image) jitter(strength [4]float64, r *rand.Rand) *Image {
	for _, k := range r.Perm(4) {
		s := strength[k]
		if s == 0 {
			continue
		}
		amount := (2*r.Float64() - 1) * s
		if k < 3 {
			least := max(0, 1-s)
			amount = least + r.Float64()*(1+s-least)
		}
		name := [4]string{"Brightness", "Contrast", "Color", "Hue"}[k]
		p = operations[name](p, amount, surroundings{})
	}
	return p
}

// blur is Pillow's GaussianBlur, bit for bit (BoxBlur.c of Pillow 9.4): three means over a window of fractional length
// along each axis, whose variances add up to the Gaussian's (Gwosdek et al. 2011).
func (p *Image) blur(sigma float64) {
	const passes = 3
	variance := float32(sigma) * float32(sigma) / passes
	length := float32(math.Sqrt(float64(12*float64(variance)) + 1))
	whole := float32(math.Floor((float64(length) - 1) / 2))
	part := (2*whole + 1) * (float32(whole*(whole+1)) - float32(3*variance))
	part /= 6 * (variance - float32((whole+1)*(whole+1)))
	radius := whole + part
	line := make([]uint8, max(p.Height, p.Width))
	for range passes {
		for i := range 3 * p.Height {
			boxMean(p.Pixels[i/3*3*p.Width+i%3:], 3, p.Width, radius, line)
		}
	}
	for range passes {
		for i := range 3 * p.Width {
			boxMean(p.Pixels[i:], 3*p.Width, p.Height, radius, line)
		}
	}
}

// boxMean replaces n values, step apart, by the means of the 2·radius + 1 around each; the first and the last repeat.
func boxMean(values []uint8, step, n int, radius float32, line []uint8) {
	for i := range n {
		line[i] = values[i*step]
	}
	at := func(i int) uint32 { return uint32(line[min(max(i, 0), n-1)]) }
	reach := int(radius)
	weight := uint32(float32(1<<24) / float32(float32(radius*2)+1))
	end := (1<<24 - uint32(2*reach+1)*weight) / 2 // weight of the two values that are partly inside
	sum := uint32(0)
	for i := -reach; i <= reach; i++ {
		sum += at(i)
	}
	for i := range n {
		values[i*step] = uint8((sum*weight + (at(i-reach-1)+at(i+reach+1))*end + 1<<23) >> 24)
		sum += at(i+reach+1) - at(i-reach)
	}
}
