package model

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
)

// CNN is a small convolutional classifier of square images similar to LeNet-5 (LeCun et
// al. 1998): two 5x5 convolutions with pooling, and three linear layers. Its parameters
// are conv1, conv2, fc1, fc2 and fc3.
type CNN struct {
	conv1, conv2  *nn.Conv2D
	fc1, fc2, fc3 *nn.Linear
}

// NewCNN returns a classifier of images [n, channels, side, side].
func NewCNN(s *tensor.Session, channels, side, classes int) (*CNN, error) {
	if channels < 1 || classes < 1 || side < 12 || side%2 != 0 {
		return nil, fmt.Errorf("%w: %d channels of %d x %d in %d classes; expected an even side of 12 or more", ErrConfig, channels, side, side, classes)
	}
	last := (side/2 - 4) / 2 // side after the second pooling
	return &CNN{
		conv1: nn.NewConv2D(s, channels, 6, 5, true, tensor.ConvOptions{Pad: [2]int{2, 2}}),
		conv2: nn.NewConv2D(s, 6, 16, 5, true, tensor.ConvOptions{}),
		fc1:   nn.NewLinear(s, 16*last*last, 120, true),
		fc2:   nn.NewLinear(s, 120, 84, true),
		fc3:   nn.NewLinear(s, 84, classes, true),
	}, nil
}

// Params implements nn.Module.
func (m *CNN) Params() []tensor.Named {
	return slices.Concat(nn.Prefix("conv1", m.conv1.Params()), nn.Prefix("conv2", m.conv2.Params()),
		nn.Prefix("fc1", m.fc1.Params()), nn.Prefix("fc2", m.fc2.Params()), nn.Prefix("fc3", m.fc3.Params()))
}

// Forward returns the logits [n, classes] of x [n, channels, side, side].
func (m *CNN) Forward(x *tensor.Tensor) *tensor.Tensor {
	x = m.conv1.Forward(x).ReLU().MaxPool2D(2, 0, 0)
	x = m.conv2.Forward(x).ReLU().MaxPool2D(2, 0, 0)
	x = m.fc1.Forward(nn.Flatten()(x)).ReLU()
	return m.fc3.Forward(m.fc2.Forward(x).ReLU())
}

// Loss returns the cross-entropy of x's logits with the classes y [n].
func (m *CNN) Loss(x, y *tensor.Tensor) *tensor.Tensor { return nn.CrossEntropy(m.Forward(x), y) }
