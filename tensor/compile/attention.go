package compile

func (c *compiler) attention() {}
