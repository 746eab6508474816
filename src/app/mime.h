/* The media type of a static file, by its name. */
#ifndef CLOISTER_APP_MIME_H
#define CLOISTER_APP_MIME_H

const char *mime_type(const char *path);

#endif
