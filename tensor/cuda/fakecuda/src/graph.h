// What streams, events and other calls ask about captures.
#ifndef GRAPH_H
#define GRAPH_H
#include "fake.h"

typedef struct Capture Capture;
typedef struct {
	int *node, count;
} Set;

// Place is where a stream or an event stands in a capture: after those nodes. Only
// graph.c looks inside.
typedef struct {
	Capture *capture; // NULL: in none
	Set after;
} Place;
Place *stream_place(Stream *s);
Place *event_place(Event *e);
bool stream_blocks(const Stream *s); // it waits for the legacy stream

// capture_refuses returns an error where captures forbid a call: one of the legacy
// stream, one that waits for all streams, or one that might wait inside the driver.
typedef enum { LEGACY, ALL, UNSAFE } Concern;
Result capture_refuses(Concern how);
Result capture_refuses_stream(Stream *s);
Result capture_refuses_event(Event *e); // that a call asks about or waits for

// capture_takes, capture_records and capture_waits return whether the call was one for a
// capture. Then it is done, with the result *r.
bool capture_takes(Stream *s, const Op *op, Result *r);
bool capture_records(Stream *s, Event *e);
bool capture_waits(Stream *s, Event *e, Result *r);
bool event_captured(Event *e);

#endif
