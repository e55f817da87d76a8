// What is published of a package is its bundles (`tools/bundle.mjs`), whatever the conditions of who loads it.
const bundledOnly = (entry) => {
  if (entry === null || typeof entry !== 'object') return entry
  const { bundled, ...others } = entry
  if (bundled !== undefined) return { ...others, default: bundled }
  return Object.fromEntries(Object.entries(others).map(([key, own]) => [key, bundledOnly(own)]))
}

// llama.cpp's libraries for other systems than Linux: not every registry has them, and a lockfile needs all of them.
const elsewhere = ['mac-arm64-metal', 'mac-x64', 'win-arm64', 'win-x64']
const onLinux = '@node-llama-cpp/linux-x64'

const withLibraries = (optional) =>
  optional?.[onLinux] === undefined
    ? optional
    : {
        ...optional,
        ...Object.fromEntries(
          elsewhere.map((name) => [`@node-llama-cpp/${name}`, optional[onLinux]]),
        ),
      }

const beforePacking = ({ exports, imports, optionalDependencies, ...manifest }) => ({
  ...manifest,
  optionalDependencies: withLibraries(optionalDependencies),
  exports: bundledOnly(exports),
  ...(imports === undefined ? {} : { imports: bundledOnly(imports) }),
})

module.exports = { hooks: { beforePacking } }
