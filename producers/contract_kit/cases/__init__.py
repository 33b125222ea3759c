"""The cases of the contract, one module for each group; `producers.contract_kit.catalog` lists them all."""
