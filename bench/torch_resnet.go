package bench

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
)

// resnet is a small residual network (He et al. 2015) of images [n, 3, 32, 32]: a block
// of 32 channels and one that goes on to 64 of half the side. torch/models.py has the
// same.
type resnet struct {
	stem       convNorm
	same, down residual
	fc         *nn.Linear
}

// convNorm is a convolution and a normalisation of each channel over the batch.
type convNorm struct {
	conv         *nn.Conv2D
	weight, bias *tensor.Tensor // [channels]
}

// residual is two convolutions beside a shortcut, which is a convolution itself where the
// shape changes.
type residual struct {
	first, second convNorm
	shortcut      *convNorm
}

func newResnet(s *tensor.Session) *resnet {
	conv := func(in, out, kernel, stride int) convNorm {
		o := tensor.ConvOptions{Stride: [2]int{stride, stride}, Pad: [2]int{kernel / 2, kernel / 2}}
		return convNorm{nn.NewConv2D(s, in, out, kernel, false, o), nn.Constant(s, 1, out), nn.Constant(s, 0, out)}
	}
	shortcut := conv(32, 64, 1, 2)
	return &resnet{
		stem: conv(3, 32, 3, 1),
		same: residual{first: conv(32, 32, 3, 1), second: conv(32, 32, 3, 1)},
		down: residual{first: conv(32, 64, 3, 2), second: conv(64, 64, 3, 1), shortcut: &shortcut},
		fc:   nn.NewLinear(s, 64, 10, true),
	}
}

func (l *convNorm) params(name string) []tensor.Named {
	return append(nn.Prefix(name+".conv", l.conv.Params()), tensor.Named{Name: name + ".norm.weight", T: l.weight}, tensor.Named{Name: name + ".norm.bias", T: l.bias})
}

func (b *residual) params(name string) []tensor.Named {
	ps := slices.Concat(b.first.params(name+".first"), b.second.params(name+".second"))
	if b.shortcut != nil {
		ps = append(ps, b.shortcut.params(name+".shortcut")...)
	}
	return ps
}

// Params implements nn.Module.
func (m *resnet) Params() []tensor.Named {
	return slices.Concat(m.stem.params("stem"), m.same.params("same"), m.down.params("down"), nn.Prefix("fc", m.fc.Params()))
}

func (l *convNorm) forward(x *tensor.Tensor) *tensor.Tensor {
	const eps = 1e-5
	x = l.conv.Forward(x)
	channels := l.weight.Elems()
	off := x.Sub(x.MeanKeep(0, 2, 3))
	scale := off.Square().MeanKeep(0, 2, 3).AddS(eps).Rsqrt().Mul(l.weight.Reshape(1, channels, 1, 1))
	return off.Mul(scale).Add(l.bias.Reshape(1, channels, 1, 1))
}

func (b *residual) forward(x *tensor.Tensor) *tensor.Tensor {
	y := b.second.forward(b.first.forward(x).ReLU())
	if b.shortcut != nil {
		x = b.shortcut.forward(x)
	}
	return x.Add(y).ReLU()
}

// Loss implements network.
func (m *resnet) Loss(x, y *tensor.Tensor) *tensor.Tensor {
	x = m.down.forward(m.same.forward(m.stem.forward(x).ReLU()))
	return nn.CrossEntropy(m.fc.Forward(x.Mean(2, 3)), y)
}
