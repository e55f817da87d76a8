/** Settings of an engine that says nothing and has no plugins. */
export const quietSettings = {
  policy: 'adaptive+fcfs',
  policyOptions: {},
  options: {},
  plugins: [],
  pluginsFolder: process.cwd(),
  log: { level: 'silent', file: null },
} as const
