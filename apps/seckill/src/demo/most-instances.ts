/** Each instance is a process of Node.js: without a limit, a slip of the keyboard would fill the machine. */
export const MOST_INSTANCES = 8;

export const WHY_NO_MORE =
  'Each is a process of about 100 MB: more would fill the machine and show nothing new.';
