package compile

func (c *compiler) joinPads() {}
