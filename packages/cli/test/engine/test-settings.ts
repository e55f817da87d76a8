/** Settings of an engine that says nothing and has no plugins. */
export const quietSettings = {
  policy: 'adaptive+fcfs',
  policyOptions: {},
  options: {},
  plugins: [],
  pluginsFolder: process.cwd(),
  backendName: 'llamacpp',
  use: {},
  log: { level: 'silent', file: null },
} as const
